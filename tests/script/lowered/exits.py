def f(x, n: int):
    for i in range(1, n, 2):
        if i == 7:
            break
        if i % 2:
            continue
        if x.sum() > 3 and n < 5:
            return x * i
    else:
        x = -x
    while True:
        n -= 1
        if n < 0:
            return x
