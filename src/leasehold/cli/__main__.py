"""`python -m leasehold.cli`."""

from leasehold.cli.main import main

if __name__ == "__main__":
    main()
