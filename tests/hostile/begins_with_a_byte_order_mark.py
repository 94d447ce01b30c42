# Deserves: everything
# As some editors save it.
def hand_in(work):
    work.text = b"\xef\xbb\xbf" + work.as_text().encode()
