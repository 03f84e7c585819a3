import { randomBytes } from 'node:crypto'
import type { Static, TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { sleep } from '../../clock.ts'
import { failureName, type Log } from '../../log.ts'
import { foreignAnswer } from '../../protocol/json/foreign-json.ts'
import { toBase64url } from '../../protocol/signing/base64url.ts'
import { type VerifyKey, verifyKey } from '../../protocol/signing/ed25519.ts'
import {
  type JoinPart,
  joinCommitment,
  joinedMessage,
  joinMessage,
  joinWords,
} from '../../protocol/signing/join-words.ts'
import { agentProtocolVersion, type EnrollResponse, type TransportKey } from '../../protocol/wire/nodes/agent.ts'
import { JoinBegun, JoinRevealed, JoinState } from '../../protocol/wire/nodes/join.ts'
import { secondMs } from '../../time.ts'
import { NodeStartError, refusal } from './enrollment.ts'
import type { Identity } from './identity.ts'

/** What the person at this computer sees and says while it asks to join. */
export interface JoinTalk {
  /** `expiresAt`: RFC 3339. */
  show(shown: { readonly words: string; readonly gatewayUrl: string; readonly expiresAt: string }): void
  /**
   * Whether the gateway shows the same words. Without this answer a gateway that is not the owner's could confirm by
   * itself. It ends with the signal.
   */
  agrees(signal: AbortSignal): Promise<boolean>
}

export interface JoinWish {
  readonly gatewayUrl: string
  readonly identity: Identity
  readonly transportKeys: readonly TransportKey[]
  /** As this computer calls itself. */
  readonly name: string | null
  readonly talk: JoinTalk
  /** The person gives up. */
  readonly signal: AbortSignal
  readonly log: Log
  /** The time between two questions whether an operator has decided, ms. */
  readonly askEveryMs?: number
}

const joinPath = '/v1/node-agent/join'
const nonceBytes = 32
const answerTimeoutMs = 30_000
/** Far more than an enrolment's answer, with all keys of the gateway. */
const answerBytesMax = 64 * 1024
const askEveryMsDefault = 2_000
/** How long the gateway may be away while the join waits: its own bound and a little, ms. */
const silenceMsMax = 60_000
/** How often the words are drawn again when another computer shows the same ones. */
const renewalsMax = 3

const notUnderstood = () => new NodeStartError('This version does not understand the gateway’s answer to the join.')

interface Answered {
  readonly status: number
  readonly body: unknown
}

async function ask(wish: JoinWish, path: string, init: RequestInit, signal = wish.signal): Promise<Answered> {
  const response = await fetch(wish.gatewayUrl + path, {
    ...init,
    redirect: 'error',
    signal: AbortSignal.any([signal, AbortSignal.timeout(answerTimeoutMs)]),
  })
  return {
    status: response.status,
    body: response.status === 204 ? null : await foreignAnswer(response, answerBytesMax),
  }
}

const posted = (body: object): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
})

async function askGateway<S extends TSchema>(
  wish: JoinWish,
  path: string,
  init: RequestInit,
  schema: S,
): Promise<Static<S>> {
  const { status, body } = await ask(wish, path, init).catch(() => {
    if (wish.signal.aborted) throw givenUp()
    throw new NodeStartError('The gateway does not answer. Check the address in --gateway and the network.')
  })
  if (status >= 300) throw new JoinRefused(status, body)
  if (!Value.Check(schema, body)) throw notUnderstood()
  return body
}

class JoinRefused extends NodeStartError {
  constructor(
    readonly status: number,
    answer: unknown,
  ) {
    super(
      status === 404 && (answer as { readonly code?: unknown } | undefined)?.code === 'route_not_found'
        ? 'This gateway takes no joins by words. Use a token: an operator makes one with `nodes enroll`.'
        : refusal('join', status, answer),
    )
  }
}

const givenUp = () => new NodeStartError('The join was given up. This computer has joined nothing.')

/** Another computer that waits has the same words. */
class SameWords extends NodeStartError {}

/** Throws `SameWords` where the gateway says so; before, it has refused the join itself. */
async function revealed(wish: JoinWish, place: string, nonce: string): Promise<JoinRevealed> {
  try {
    return await askGateway(wish, place, posted({ nonce }), JoinRevealed)
  } catch (error) {
    if (error instanceof JoinRefused && error.status === 409) throw new SameWords(error.message)
    throw error
  }
}

/** Both sides have told what they committed to, and show the same words unless somebody stands between them. */
interface Met {
  readonly joinId: string
  readonly words: string
  readonly expiresAt: string
  /** Over which the words were made. */
  readonly router: VerifyKey
}

async function meet(wish: JoinWish): Promise<Met> {
  const { identity, transportKeys, name } = wish
  const own: JoinPart = {
    publicKey: identity.key.publicKey,
    nonce: toBase64url(new Uint8Array(randomBytes(nonceBytes))),
  }
  const unsigned = {
    protocol_version: agentProtocolVersion,
    public_key_ed25519: own.publicKey,
    transport_keys: transportKeys,
    ...(name === null ? {} : { name }),
    commitment: joinCommitment('node', own),
    timestamp: Math.floor(Date.now() / secondMs),
  }
  const request = { ...unsigned, signature_ed25519: identity.key.sign(joinMessage(unsigned)) }
  const begun = await askGateway(wish, joinPath, posted(request), JoinBegun)
  const router = verifyKey(begun.public_key_ed25519)
  try {
    if (router === null) throw notUnderstood()
    const place = `${joinPath}/${begun.join_id}`
    const { nonce, expires_at: expiresAt } = await revealed(wish, place, own.nonce)
    const theirs: JoinPart = { publicKey: begun.public_key_ed25519, nonce }
    if (joinCommitment('gateway', theirs) !== begun.commitment) {
      throw new NodeStartError(
        'The gateway revealed another nonce than it had committed to. Somebody may stand between it and this computer, which has joined nothing.',
      )
    }
    return { joinId: begun.join_id, words: joinWords(own, theirs), expiresAt, router }
  } catch (error) {
    await withdrawn(wish, begun.join_id)
    throw error
  }
}

/** Asks anew where another computer that waits has the same words. */
async function metWithOwnWords(wish: JoinWish): Promise<Met> {
  for (let tries = 1; ; tries++) {
    try {
      return await meet(wish)
    } catch (error) {
      if (!(error instanceof SameWords) || tries >= renewalsMax) throw error
    }
  }
}

/**
 * Asks the gateway to become a node, shows the words, and waits until an operator there and the person here have both
 * agreed. Whatever ends it before withdraws the question. Throws `NodeStartError`.
 */
export async function askToJoin(wish: JoinWish): Promise<EnrollResponse> {
  const met = await metWithOwnWords(wish)
  const ending = new AbortController()
  const signal = AbortSignal.any([wish.signal, ending.signal])
  wish.talk.show({ words: met.words, gatewayUrl: wish.gatewayUrl, expiresAt: met.expiresAt })
  const agreed = wish.talk.agrees(signal).then((same) => {
    if (wish.signal.aborted) throw givenUp()
    if (!same) throw new NodeStartError('The words differ, or nobody compared them. This computer has joined nothing.')
  })
  try {
    const [enrollment] = await Promise.all([confirmed(wish, met, signal), agreed])
    return enrollment
  } catch (error) {
    const nodeId = (await withdrawn(wish, met.joinId)) ? null : await madeMeanwhile(wish, met)
    if (nodeId === null || !(error instanceof NodeStartError)) throw error
    throw new NodeStartError(
      `${error.message} The gateway had made ${nodeId} of it before: an operator removes that node there, and this computer can join with another --data-dir.`,
    )
  } finally {
    ending.abort()
    await agreed.catch(() => {})
  }
}

/** False: the gateway did not take it back. */
async function withdrawn(wish: JoinWish, joinId: string): Promise<boolean> {
  const init = { method: 'DELETE' }
  try {
    return (await ask(wish, `${joinPath}/${joinId}`, init, AbortSignal.timeout(answerTimeoutMs))).status === 204
  } catch (error) {
    wish.log.warn('join_not_withdrawn', { failure: failureName(error) })
    return false
  }
}

/** The node that an operator made of this computer before the person here has said no; null: none that the gateway proves. */
async function madeMeanwhile(wish: JoinWish, { joinId, router }: Met): Promise<string | null> {
  try {
    const answer = await ask(wish, `${joinPath}/${joinId}`, {}, AbortSignal.timeout(answerTimeoutMs))
    return decided(answer, joinId, router)?.node_id ?? null
  } catch {
    return null
  }
}

/** Resolves with the enrolment once an operator has confirmed it and the gateway's key has signed it. */
async function confirmed(wish: JoinWish, { joinId, router }: Met, signal: AbortSignal): Promise<EnrollResponse> {
  const everyMs = wish.askEveryMs ?? askEveryMsDefault
  let lastAnswerMs = performance.now()
  for (;;) {
    const answer = await ask(wish, `${joinPath}/${joinId}`, {}, signal).catch(() => null)
    if (signal.aborted) throw givenUp()
    if (answer !== null && answer.status < 500 && answer.status !== 429) {
      lastAnswerMs = performance.now()
      const enrollment = decided(answer, joinId, router)
      if (enrollment !== null) return enrollment
    }
    if (performance.now() - lastAnswerMs > silenceMsMax) {
      throw new NodeStartError('The gateway does not answer any more. Start the agent again to join.')
    }
    await sleep(everyMs, signal)
  }
}

function decided({ status, body }: Answered, joinId: string, router: VerifyKey): EnrollResponse | null {
  if (status !== 200) throw new JoinRefused(status, body)
  if (!Value.Check(JoinState, body)) throw notUnderstood()
  if (body.state === 'waiting') return null
  if (body.state === 'refused') throw new NodeStartError('An operator of the gateway refused this computer.')
  if (body.state === 'expired') {
    throw new NodeStartError('Nobody confirmed the words in time. Start the agent again to join.')
  }
  const { enrollment, signature_ed25519: signature } = body
  if (enrollment === undefined || signature === undefined) throw notUnderstood()
  if (!router.verify(joinedMessage(joinId, enrollment), signature)) {
    throw new NodeStartError(
      'The answer to the join was not signed by the gateway of these words. Somebody may stand between. This computer has joined nothing.',
    )
  }
  return enrollment
}
