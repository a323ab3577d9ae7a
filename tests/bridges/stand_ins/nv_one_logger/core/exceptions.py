class OneLoggerError(Exception):
    pass


def assert_that(condition, message):
    if not condition:
        raise OneLoggerError(message)
