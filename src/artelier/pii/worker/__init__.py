"""The helper process that searches large texts for personal data: fed only by
`artelier.pii.search_processes`.

It is given texts and names of detectors, and answers with places. It holds no key and makes no placeholder.
"""
