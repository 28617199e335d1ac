#compdef tracectl
# zsh completion for tracectl: what complete.sh says.
_tracectl() {
	local line
	local -a found texts
	while IFS= read -r line; do
		if [[ $line == @files ]]; then
			_files
			return
		fi
		found+=("${line%%$'\t'*}")
		texts+=("${line%%$'\t'*}${${(M)line%%$'\t'*}:+  ${line#*$'\t'}}")
	done < <(TRACECTL=${(Q)words[1]} sh @COMPLETE@ "${(@Q)words[2,CURRENT]}" 2>/dev/null)
	compadd -U -S '' -l -d texts -a found
}
_tracectl "$@"
