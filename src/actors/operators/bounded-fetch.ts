/** Whether the provider failed, rather than refused. */
export interface ProviderState {
  away: boolean
}

/** Far more than a discovery document or a set of keys has. */
const answerBytesMax = 256 * 1024

async function boundedBytes(response: Response): Promise<Uint8Array> {
  const parts: Uint8Array[] = []
  let length = 0
  if (response.body === null) return new Uint8Array()
  for await (const part of response.body as unknown as AsyncIterable<Uint8Array>) {
    length += part.byteLength
    if (length > answerBytesMax) throw new Error('the answer of the provider is too long')
    parts.push(part)
  }
  return Buffer.concat(parts)
}

/**
 * A `fetch` that reads at most 256 KiB and follows no redirect, within the time of its signal. It notes where the
 * provider cannot be reached, answers too late, too long, or with a failure of its own.
 */
export function boundedFetch(state: ProviderState): (url: string, init: RequestInit) => Promise<Response> {
  return async (url, init) => {
    try {
      const response = await fetch(url, { ...init, redirect: 'manual' })
      if (response.status >= 500) state.away = true
      const { status, statusText, headers } = response
      const bytes = await boundedBytes(response)
      return new Response(status === 204 || status === 304 ? null : (bytes as BodyInit), {
        status,
        statusText,
        headers,
      })
    } catch (error) {
      state.away = true
      throw error
    }
  }
}
