# Written by scripts/command_line.py from what kaiju --help says.

_kaiju() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} options=
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "serve node run top plan bench synth keygen --help --version" -- "$word"))
    return
  fi
  case "$command $before" in
    *\ --host | *\ --port | *\ --cors-origin | *\ --max-body | *\ --max-head | *\ --max-headers | *\ --max-connections | *\ --request-timeout | *\ --idle-timeout | *\ --write-timeout | *\ --max-responses | *\ --max-response-memory | *\ --alias | *\ --drop-prompt-lines | *\ --nodes | *\ --split | *\ --ctx | *\ --parallel | *\ --kv-tokens | *\ --queue | *\ --chunk | *\ --micro-batches | *\ --draft | *\ --kv-disk-size | *\ --threads | *\ --pin | *\ --memory | *\ --bandwidth | *\ --connect-timeout | *\ --recovery-timeout | *\ --deadline | *\ --step-timeout | *\ --listen | *\ --prompt | *\ -p | *\ --system | *\ --max-tokens | *\ --temperature | *\ --top-p | *\ --top-k | *\ --min-p | *\ --repetition-penalty | *\ --seed | *\ --interval | *\ --node | *\ --batch-tokens | *\ --prompt-tokens | *\ --streams | *\ --contexts | *\ --tokens | *\ --rounds | *\ --layers | *\ --shard-size)
      return
      ;;
    *\ --socket | *\ --api-key-file | *\ --tls-cert | *\ --tls-key | *\ --key-file | *\ --config)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
      ;;
    serve\ --kv-disk | *\ --model | node\ --kv-disk | run\ --kv-disk | bench\ --kv-disk | *\ --tokenizer)
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      return
      ;;
    *\ --cpu)
      COMPREPLY=($(compgen -W "auto reference avx2 avxvnni avx512 neon neon-i8mm" -- "$word"))
      return
      ;;
    *\ --provider)
      COMPREPLY=($(compgen -W "tcp verbs" -- "$word"))
      return
      ;;
    *\ --bits)
      COMPREPLY=($(compgen -W "4 8" -- "$word"))
      return
      ;;
    *\ --group)
      COMPREPLY=($(compgen -W "32 64 128" -- "$word"))
      return
      ;;
  esac
  case "$command" in
    serve)
      options="--host --port --socket --api-key-file --insecure --tls-cert --tls-key --cors-origin --no-page --max-body --max-head --max-headers --max-connections --request-timeout --idle-timeout --write-timeout --max-responses --max-response-memory --alias --drop-prompt-lines --nodes --split --ctx --parallel --kv-tokens --queue --chunk --micro-batches --draft --kv-disk --kv-disk-size --threads --pin --huge-pages --cpu --memory --bandwidth --key-file --provider --connect-timeout --recovery-timeout --deadline --step-timeout --help"
      ;;
    node)
      options="--listen --model --threads --pin --huge-pages --cpu --memory --bandwidth --kv-disk --kv-disk-size --key-file --provider --deadline --help"
      ;;
    run)
      options="--prompt --raw --system --max-tokens --temperature --top-p --top-k --min-p --repetition-penalty --seed --quiet --nodes --split --ctx --parallel --kv-tokens --queue --chunk --micro-batches --draft --kv-disk --kv-disk-size --threads --pin --huge-pages --cpu --memory --bandwidth --key-file --provider --connect-timeout --recovery-timeout --deadline --step-timeout --help"
      ;;
    top)
      options="--api-key-file --interval --once --help"
      ;;
    plan)
      options="--node --split --ctx --parallel --kv-tokens --micro-batches --batch-tokens --kv-disk --threads --head-on-last --json --help"
      ;;
    bench)
      options="--prompt-tokens --streams --contexts --tokens --rounds --json --nodes --split --ctx --parallel --kv-tokens --queue --chunk --micro-batches --draft --kv-disk --kv-disk-size --threads --pin --huge-pages --cpu --memory --bandwidth --key-file --provider --connect-timeout --recovery-timeout --deadline --step-timeout --help"
      ;;
    synth)
      options="--config --layers --seed --bits --group --sparse --shard-size --tokenizer --help"
      ;;
    keygen)
      options="--help"
      ;;
  esac
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$word"))
    return
  fi
  case "$command" in
    serve) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
    run) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
    plan) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
    bench) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
    synth) mapfile -t COMPREPLY < <(compgen -W "qwen3-coder-480b qwen3-coder-30b qwen3-235b" -- "$word"; compgen -d -- "$word") ;;
    keygen) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
  esac
}

complete -o filenames -F _kaiju kaiju
