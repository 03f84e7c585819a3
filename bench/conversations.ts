import { lettersPerToken } from './simulated-node.ts'

export interface Message {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

/** What one user will say, and when. */
export interface Conversation {
  readonly startsAtS: number
  readonly model: string
  readonly system: string
  /** Each is said so long after the answer before it was complete. */
  readonly turns: readonly { readonly thinkS: number; readonly text: string; readonly answerTokens: number }[]
}

/** In the time of a real pool. */
export interface ConversationPlan {
  /** They begin by Poisson, so many a second, until the horizon. */
  readonly rate: number
  readonly horizonS: number
  readonly turns: number
  /** Conversations with the same system prompt: as many groups, the first ones asked for more often (Zipf). */
  readonly systems: number
  readonly zipf: number
  /** Means. */
  readonly systemTokens: number
  readonly userTokens: number
  readonly answerTokens: number
  readonly thinkS: number
  readonly seed: number
  /** They ask for these in turn. */
  readonly models: readonly string[]
}

/** mulberry32: the same seed gives every way of choosing the same load. */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** That of `tests/machines/placement/fleet.ts`. */
export function planConversations(plan: ConversationPlan): readonly Conversation[] {
  const random = randomFrom(plan.seed)
  const text = (name: string, tokens: number) =>
    `${name} `.repeat(Math.ceil((tokens * lettersPerToken) / (name.length + 1)))
  const about = (mean: number) => mean * (0.5 + random())
  const systems = Array.from({ length: plan.systems }, (_, at) => text(`system${at}`, plan.systemTokens))
  const conversations: Conversation[] = []
  for (let atS = 0; atS < plan.horizonS; atS += -Math.log(1 - random()) / plan.rate) {
    const number = conversations.length
    const system = systems[Math.min(systems.length - 1, Math.floor(systems.length * random() ** plan.zipf))] ?? ''
    const turns = Array.from({ length: plan.turns }, (_, turn) => ({
      thinkS: turn === 0 ? 0 : about(plan.thinkS),
      text: text(`user${number}.${turn}`, about(plan.userTokens)),
      answerTokens: Math.max(1, Math.round(about(plan.answerTokens))),
    }))
    const model = plan.models[number % plan.models.length] ?? ''
    conversations.push({ startsAtS: atS, model, system, turns })
  }
  return conversations
}

/** Sends the messages to the model and returns the answer's text and its time to first token. */
export type Ask = (
  model: string,
  messages: readonly Message[],
  answerTokens: number,
) => Promise<{ readonly text: string; readonly ttftMs: number }>

/**
 * Holds all conversations to their end, `speed` times as fast; the time to first token of every turn, in their own seconds.
 * `fromS`: those of conversations that begin earlier are left out.
 */
export async function hold(
  conversations: readonly Conversation[],
  speed: number,
  ask: Ask,
  fromS = 0,
): Promise<readonly number[]> {
  const wait = (seconds: number) => Bun.sleep((seconds * 1_000) / speed)
  const times = await Promise.all(
    conversations.map(async ({ startsAtS, model, system, turns }) => {
      await wait(startsAtS)
      const messages: Message[] = [{ role: 'system', content: system }]
      const own: number[] = []
      for (const { thinkS, text, answerTokens } of turns) {
        await wait(thinkS)
        messages.push({ role: 'user', content: text })
        const answer = await ask(model, messages, answerTokens)
        own.push((answer.ttftMs * speed) / 1_000)
        messages.push({ role: 'assistant', content: answer.text })
      }
      return startsAtS < fromS ? [] : own
    }),
  )
  return times.flat()
}
