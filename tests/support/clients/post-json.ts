/** A POST of a JSON body with a key as bearer; `init` adds to it, a signal for instance. */
export const postJson = (url: string | URL, key: string, body: unknown, init: RequestInit = {}): Promise<Response> =>
  fetch(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    ...init,
  })
