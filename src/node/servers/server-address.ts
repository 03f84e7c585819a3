/** How long a server may take to say how it is, ms. One that is still loading may be too busy to. */
const healthTimeoutMs = 2_000

/** A port on loopback that is free now. */
export function freePort(): number {
  const listener = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data: () => {} } })
  const { port } = listener
  listener.stop(true)
  return port
}

/** Whether another program holds this port of loopback. */
export function isTaken(port: number): boolean {
  try {
    Bun.listen({ hostname: '127.0.0.1', port, exclusive: true, socket: { data: () => {} } }).stop(true)
    return false
  } catch {
    return true
  }
}

export async function healthAnswers(port: number, path: string): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(healthTimeoutMs)
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { signal, redirect: 'manual' })
    await answer.body?.cancel()
    return answer.status === 200
  } catch {
    return false
  }
}
