import { Value } from '@sinclair/typebox/value'
import type { PrivateFolder } from '../../host/private-files.ts'
import { failureName, type Log } from '../../log.ts'
import { foreignAnswer } from '../../protocol/json/foreign-json.ts'
import { verifyKey } from '../../protocol/signing/ed25519.ts'
import { routerKeysMessage } from '../../protocol/signing/signatures.ts'
import { RouterKeys, type RouterPublicKey } from '../../protocol/wire/nodes/agent.ts'
import { minuteMs, secondMs } from '../../time.ts'
import { type Enrollment, enrollmentFile } from './enrollment.ts'

const routerKeysPath = '/v1/node-agent/router-keys'
const answerTimeoutMs = 10_000
/** Far more than a gateway has keys. */
const answerBytesMax = 64 * 1024
/**
 * The time between two questions for new keys, however often strangers name unknown ones, ms. It also holds after a
 * failure.
 */
const askEveryMs = minuteMs
const askAgainMs = 2 * secondMs

export interface KnownRouterKeys {
  /** Newest first. */
  current(): readonly RouterPublicKey[]
  /** Asks the gateway, unless it was asked a moment ago. Never rejects. */
  refresh(): Promise<void>
}

export interface RouterKeyOptions {
  readonly enrollment: Enrollment
  readonly folder: PrivateFolder
  readonly log: Log
  /** Called when the list has changed. */
  readonly adopted: (keys: readonly RouterPublicKey[]) => void
}

/** The keys that a known key has signed. null if no known key has signed the list. */
export function vouchedKeys(known: readonly RouterPublicKey[], answer: unknown): readonly RouterPublicKey[] | null {
  if (!Value.Check(RouterKeys, answer)) return null
  const message = routerKeysMessage(answer.router_public_keys)
  const vouched = answer.signatures.some(({ kid, signature_ed25519: signature }) => {
    const key = known.find((candidate) => candidate.kid === kid)
    return key !== undefined && verifyKey(key.public_key_ed25519)?.verify(message, signature) === true
  })
  return vouched ? answer.router_public_keys : null
}

/** Follows the gateway's keys. A new list counts if one of the known keys has signed it. */
export function createRouterKeys({ enrollment, folder, log, adopted }: RouterKeyOptions): KnownRouterKeys {
  let keys: readonly RouterPublicKey[] = enrollment.router_public_keys
  let nextMs = Number.NEGATIVE_INFINITY
  const adopt = (next: readonly RouterPublicKey[]) => {
    if (JSON.stringify(next) === JSON.stringify(keys)) return
    keys = next
    folder.write(enrollmentFile, { ...enrollment, router_public_keys: next })
    adopted(next)
    log.info('router_keys_changed', { keys: next.length })
  }
  return {
    current: () => keys,
    refresh: async () => {
      if (performance.now() < nextMs) return
      nextMs = Number.POSITIVE_INFINITY
      try {
        const next = vouchedKeys(keys, await ask(enrollment.gateway_url))
        if (next === null) log.warn('router_keys_not_vouched')
        else adopt(next)
        nextMs = performance.now() + askEveryMs
      } catch (error) {
        // The gateway may call the agent before it answers the agent's questions.
        nextMs = performance.now() + askAgainMs
        log.warn('router_keys_not_asked', { failure: failureName(error) })
      }
    },
  }
}

async function ask(gatewayUrl: string): Promise<unknown> {
  const signal = AbortSignal.timeout(answerTimeoutMs)
  const response = await fetch(gatewayUrl + routerKeysPath, { redirect: 'error', signal })
  if (response.status !== 200) throw new Error('no answer')
  return foreignAnswer(response, answerBytesMax)
}
