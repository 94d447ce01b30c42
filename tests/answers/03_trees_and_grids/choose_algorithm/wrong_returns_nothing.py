# Wrong: prints the name and returns nothing. Loses all marks.
# Told: it returned None; expected one of 'ring', 'tree'.
def choose_algorithm(nbytes, cluster, algorithms):
    print(min(algorithms, key=lambda algorithm: predict_time(algorithm, nbytes, cluster)))
