import type { ServerRequest } from './models-file.ts'

/** Asks a model server of this computer to sleep or to wake, as its owner's file says. False: it would not, or did not in time. Never rejects. */
export async function answersOrder(port: number, order: ServerRequest, signal: AbortSignal): Promise<boolean> {
  const { method = 'POST', path, body } = order
  const json = body === undefined ? {} : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
  try {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method, ...json, signal, redirect: 'manual' })
    await answer.body?.cancel()
    return answer.ok
  } catch {
    return false
  }
}
