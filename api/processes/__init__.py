"""Work in processes of their own, because it takes much memory or opens what strangers sent.

`drawing` starts `plot` and `article_page`; `code_reading` starts `code_inspection`. The routes call these two.
"""
