export interface PostInit extends Omit<RequestInit, 'headers' | 'signal'> {
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly signal?: AbortSignal | null | undefined
}

/** A POST of a JSON body with a key as bearer; `init` adds to it: headers or a signal, for instance. */
export const postJson = (
  url: string | URL,
  key: string,
  body: unknown,
  { headers, signal, ...init }: PostInit = {},
): Promise<Response> =>
  fetch(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
    signal: signal ?? null,
    ...init,
  })
