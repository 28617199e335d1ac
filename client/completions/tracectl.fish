# fish completion for tracectl: what complete.sh says.
function __tracectl_complete
	set -l words (commandline -opc)
	set -l found (TRACECTL=$words[1] sh @COMPLETE@ $words[2..] (commandline -ct) 2>/dev/null)
	if test "$found" = @files
		__fish_complete_path (commandline -ct)
	else
		printf '%s\n' $found
	end
end
complete -c tracectl -f -a '(__tracectl_complete)'
