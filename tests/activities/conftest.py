from tests.support.fake_llm import fake_llm

__all__ = ["fake_llm"]
