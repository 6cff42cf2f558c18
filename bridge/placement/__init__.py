"""Where copies of registered models are: a cache of models over instances with limited memory.

Pure asyncio on one event loop. It knows no database, no protocol and no Triton: these are behind the protocols of
`ports`.
"""
