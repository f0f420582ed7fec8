"""`python -m moso`."""

from moso.cli.main import main

if __name__ == "__main__":
    main()
