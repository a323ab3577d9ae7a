from nv_one_logger.core.exceptions import assert_that


class OneLoggerProvider:
    _instance = None

    def __init__(self):
        self._config = None
        self.recorder = None

    @classmethod
    def instance(cls):
        cls._instance = cls._instance or cls()
        return cls._instance

    def configure(self, config, recorder):
        self._config, self.recorder = config, recorder

    @property
    def config(self):
        assert_that(self._config, "You need to call OneLoggerProvider.instance().configure() once")
        return self._config
