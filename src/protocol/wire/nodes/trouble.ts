/** What a person does about a model server that does not answer, by the code of the failed look at it. */
const troubles: Readonly<Record<string, string>> = {
  refused: 'Nothing listens there. Is the server started, and bound to 0.0.0.0 and not to its own loopback?',
  dns: 'No computer has this name.',
  tls: 'It does not speak https there, or its certificate is not to be trusted.',
  speaks_http: 'The server there speaks http, not https. Write the address with http://',
  timeout: 'Nobody answers there: is the computer on, and does a firewall let the port through?',
  unknown_runtime: 'Something answers there, but not as a model server does. Is the port right?',
  path: 'A model server answers at this host and port, but not below the path of the address. Leave the path out.',
  unauthorized: 'The server wants an API key, or another one.',
}

/** What the code leaves open where the address itself may be the cause. */
function ofAddress(code: string, url: string): string | null {
  const { protocol, pathname } = new URL(url)
  if (code === 'timeout' && protocol === 'https:') {
    return 'Nobody answers there by https: is the computer on, does a firewall let the port through, and does the server speak https and not http?'
  }
  if (code === 'unknown_runtime' && pathname !== '/') {
    return 'Something answers there, but not as a model server does. Are the port and the path in the address right?'
  }
  return null
}

/** `url`: the address that was looked at; null: unknown, or a way that has none. */
export const troubleWords = (code: string, url: string | null): string =>
  (url === null ? null : ofAddress(code, url)) ??
  troubles[code] ??
  `It does not answer as a model server does (${code}).`

interface Looked {
  readonly state: string
  readonly url: string | null
  readonly last_error: { readonly code: string } | null
}

/** What is wrong with a node, in a sentence; null: it answers, or sleeps. */
export function troubleOf({ state, url, last_error: error }: Looked): string | null {
  if (['ready', 'live', 'yielding', 'asleep'].includes(state)) return null
  return error === null ? 'It has not answered yet.' : troubleWords(error.code, url)
}
