class Attribute:
    def __init__(self, name, value):
        self.name = name
        self.value = value


class Attributes(dict):
    def __init__(self, dictionary=None):
        super().__init__()
        for name, value in (dictionary or {}).items():
            self.add(name, value)

    def add(self, name, value):
        self[name] = Attribute(name, value)
        return self
