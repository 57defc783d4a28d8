"""python -m glassformer"""

from glassformer.cli import main

main()
