"""A trained agent for other people: weights, values, a card, a clip, and ONNX if asked for.

Start with `bundle.py`; `card.py` says what the agent is, `onnx_file.py` is the policy alone.
"""
