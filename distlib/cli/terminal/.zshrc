# A terminal of `distlib lab`: first the reader's own settings, then the course's Python in front of what these add to PATH.
ZDOTDIR=$HOME
[ -f ~/.zshrc ] && . ~/.zshrc
PATH="$DISTLIB_BIN:$PATH"
