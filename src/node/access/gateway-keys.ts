import { Problem } from '../../errors.ts'
import { modelIdPattern } from '../../ids.ts'
import { sha256Hex } from '../../secrets.ts'
import { minuteMs } from '../../time.ts'

/** How long the gateway's verdict about a key is used again (§12), ms. */
const verdictKeptMs = minuteMs
/** How many verdicts are kept, good and bad. The oldest is removed first. */
export const verdictsMax = 10_000

/** Asks the gateway. Rejects if it does not answer. */
export type AskGateway = (key: string, model: string, signal: AbortSignal) => Promise<boolean>

export interface GatewayKeys {
  /**
   * May this key of the gateway use `model` on this node? Rejects with `service_unavailable` if the gateway does not
   * answer, so that no caller gets in and no good key is called bad. Rejects with the signal's reason when aborted.
   */
  allows(key: string, model: string, signal: AbortSignal): Promise<boolean>
}

export interface GatewayKeysOptions {
  readonly ask: AskGateway
  /** Called for each question without an answer. */
  readonly onFailure?: (error: unknown) => void
  /** Unix ms. The default is the computer's clock. */
  readonly now?: () => number
}

/** Keeps the gateway's verdicts by the hash of key and model. No key is kept. */
export function createGatewayKeys({ ask, onFailure, now = Date.now }: GatewayKeysOptions): GatewayKeys {
  const verdicts = new Map<string, { readonly valid: boolean; readonly untilMs: number }>()
  const keep = (hash: string, valid: boolean) => {
    verdicts.delete(hash)
    verdicts.set(hash, { valid, untilMs: now() + verdictKeptMs })
    const [oldest] = verdicts.keys()
    if (verdicts.size > verdictsMax && oldest !== undefined) verdicts.delete(oldest)
  }
  return {
    async allows(key, model, signal) {
      // No gateway has a model with such an id, so the question would be refused.
      if (!modelIdPattern.test(model)) return false
      const hash = sha256Hex(`${key}\n${model}`)
      const kept = verdicts.get(hash)
      if (kept !== undefined && now() < kept.untilMs) return kept.valid
      try {
        const valid = await ask(key, model, signal)
        keep(hash, valid)
        return valid
      } catch (error) {
        signal.throwIfAborted()
        onFailure?.(error)
        throw new Problem('service_unavailable', { detail: 'The gateway, which alone knows this key, does not answer' })
      }
    },
  }
}
