# bash completion for tracectl: what complete.sh says.
_tracectl() {
	local cur words cword line reply=()
	_get_comp_words_by_ref -n := cur words cword || return
	while IFS= read -r line; do
		case $line in
		@files) compopt -o default -o filenames; reply=(); break ;;
		*) reply+=("${line%%$'\t'*}") ;;
		esac
	done < <(TRACECTL=${words[0]} sh @COMPLETE@ "${words[@]:1:cword}" 2>/dev/null)
	COMPREPLY=("${reply[@]}")
	__ltrim_colon_completions "$cur"
}
complete -F _tracectl tracectl
