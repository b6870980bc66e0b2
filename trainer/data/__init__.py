"""The data of a run: found, surveyed, split, and read in batches. Used by the session and the loop.

opening      from a spec to a dataset; start reading here
interfaces   the types that data passes through on this way
location     what lies below the data roots; listing: the names there
formats      how it is stored, and who reads it
registered   datasets with a name; npz, idx, cifar: files of arrays; synthetic: generated images
images       folders of images
image_files  the files of such a folder; headers: the kind and size of an encoded image; decode: images to pixels
arrays       collections in memory; resize: to another size; pixels: which size raw values may have
indexed      parts whose samples are read by number; shuffling: which samples come when
parquet      parts that are streamed; cache: raw files kept on local disk
tfrecord     records of examples, read by their numbers; moments: mean and deviation of columns
classes      from labels to classes; fingerprint: identifies one state of the data
augment      how training samples are changed; transforms, mixing: the changes; groups: of samples, by threads
prefetch     batches made ahead; decoded: samples kept as they are
"""
