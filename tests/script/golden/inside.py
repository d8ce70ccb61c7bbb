        def method(self, x):  # indented as it stands in its class
            if x: return -9223372036854775808
            return (x
  + 1e3j)
