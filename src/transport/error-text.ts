import type { CallSignal } from './call-signal.ts'
import type { NodeResponse } from './transport.ts'

/** What a node says of its refusal is short and comes at once; beyond this it has said nothing. */
const errorTextBytesMax = 64 * 1024
const errorTextMs = 2_000

/** The body of an answer that failed; empty where it is too long, too slow, or cut. `signal`: of the call, to end it. */
export async function errorText(response: NodeResponse, signal: CallSignal): Promise<string> {
  const timer = setTimeout(() => signal.abort(), errorTextMs)
  try {
    return await response.text(errorTextBytesMax)
  } catch {
    return ''
  } finally {
    clearTimeout(timer)
  }
}
