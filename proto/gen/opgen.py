#!/usr/bin/env python3
"""Write C tables, wrappers and docs from the op table. (Only the command line yet.)"""
import sys
sys.exit("opgen.py: no emitters yet")
