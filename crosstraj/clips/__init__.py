"""Moving pictures of an agent at play.

Start with `scenes.py` (what is played and recorded), then `tiles.py` (one picture of it) and
`files.py` (pictures as WebP, GIF or MP4). `camera.py` films an agent while it trains. May import:
learning and everything below.
"""
