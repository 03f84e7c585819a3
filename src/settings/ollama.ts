import { tokenPrefixes } from '../brand.ts'
import { listenAddress } from './listen-address.ts'
import type { Setting } from './setting.ts'

/** Ollama's interface on a listener of its own (§28). */
export const ollamaSettings = {
  SVC_OLLAMA_LISTEN: {
    kind: 'text',
    default: null,
    meaning: 'Address and port (`127.0.0.1:11434`) on which the gateway also speaks as Ollama does. Off by default.',
  },
  SVC_OLLAMA_KEY: {
    kind: 'secret',
    meaning:
      'Gateway key as which callers without one act on that listener. Anyone who reaches the listener then needs no key.',
  },
  SVC_ALLOWED_HOSTS: {
    kind: 'list',
    meaning:
      'Names by which that listener may be called (the `Host` header), besides those of loopback and its own address',
  },
} as const satisfies Record<string, Setting>

interface Given {
  readonly SVC_OLLAMA_LISTEN: string | null
  readonly SVC_OLLAMA_KEY: string | null
  readonly SVC_ALLOWED_HOSTS: readonly string[]
}

const hostName = /^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?|\[[0-9a-fA-F:.]+\])$/

export function ollamaFaults({ SVC_OLLAMA_LISTEN: listen, SVC_OLLAMA_KEY: key, SVC_ALLOWED_HOSTS: hosts }: Given) {
  const faults: string[] = []
  if (listen !== null && listenAddress(listen) === null) {
    faults.push('SVC_OLLAMA_LISTEN must be an address and a port like 127.0.0.1:11434')
  }
  if (key !== null && !key.startsWith(tokenPrefixes.gateway)) {
    faults.push(`SVC_OLLAMA_KEY must be a gateway key (${tokenPrefixes.gateway}…)`)
  }
  if (!hosts.every((host) => hostName.test(host))) {
    faults.push('SVC_ALLOWED_HOSTS must be a list of host names without ports')
  }
  return faults
}
