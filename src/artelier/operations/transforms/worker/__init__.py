"""The helper process of transforms: patterns and paths of users run here, where they can be killed.

It is fed only by `artelier.operations.transforms.transform`.
"""
