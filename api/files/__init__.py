"""The bytes of files that the api takes and sends: uploads, artifacts and checkpoints, on the disk and in the store."""
