/** What a person does about a model server that does not answer, by the code of the failed look at it. */
const troubles: Readonly<Record<string, string>> = {
  refused: 'Nothing listens there. Is the server started, and bound to 0.0.0.0 and not to its own loopback?',
  dns: 'No computer has this name.',
  tls: 'It does not speak https there, or its certificate is not to be trusted.',
  timeout: 'Nobody answers there: is the computer on, and does a firewall let the port through?',
  unknown_runtime: 'Something answers there, but not as a model server does. Is the port right?',
  unauthorized: 'The server wants an API key, or another one.',
}

export const troubleWords = (code: string): string =>
  troubles[code] ?? `It does not answer as a model server does (${code}).`

interface Looked {
  readonly state: string
  readonly last_error: { readonly code: string } | null
}

/** What is wrong with a node, in a sentence; null: it answers. */
export function troubleOf({ state, last_error: error }: Looked): string | null {
  if (state === 'ready' || state === 'live') return null
  return error === null ? 'It has not answered yet.' : troubleWords(error.code)
}
