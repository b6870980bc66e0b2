"""The data of a run: found, surveyed, split, and read in batches. Used by the session and the loop.

opening      the way from a spec to a dataset; begin reading there
parts        the shapes that data takes on this way
order        which samples come when
indexed      parts whose samples are read by number; arrays, images, synthetic: their collections
parquet      parts that are streamed
location     what lies below the data roots; cache: raw files kept on local disk
"""
