export interface Message {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

/** What one user will say, and when. */
export interface Conversation {
  readonly startsAtMs: number
  readonly system: string
  /** Each is said so long after the answer before it was complete. */
  readonly turns: readonly { readonly thinkMs: number; readonly text: string }[]
}

export interface ConversationPlan {
  readonly conversations: number
  readonly turns: number
  /** Conversations with the same system prompt: as many groups. */
  readonly systemPrompts: number
  readonly systemWords: number
  readonly userWords: number
  /** All begin within this time. */
  readonly withinMs: number
  /** Mean; exponentially distributed. */
  readonly thinkMs: number
  readonly seed: number
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

export function planConversations(plan: ConversationPlan): readonly Conversation[] {
  const random = randomFrom(plan.seed)
  const text = (name: string, words: number) =>
    Array.from({ length: Math.round(words * (0.5 + random())) }, (_, at) => `${name}.${at}`).join(' ')
  const systems = Array.from({ length: plan.systemPrompts }, (_, at) => text(`system${at}`, plan.systemWords))
  return Array.from({ length: plan.conversations }, (_, at) => ({
    startsAtMs: random() * plan.withinMs,
    system: systems[Math.floor(random() * systems.length)] ?? '',
    turns: Array.from({ length: plan.turns }, (_, turn) => ({
      thinkMs: turn === 0 ? 0 : -Math.log(1 - random()) * plan.thinkMs,
      text: text(`user${at}.${turn}`, plan.userWords),
    })),
  }))
}

/** Sends the messages and returns the answer's text and its time to first token. */
export type Ask = (messages: readonly Message[]) => Promise<{ readonly text: string; readonly ttftMs: number }>

/** Holds all conversations to their end; the time to first token of every turn, in ms. */
export async function hold(conversations: readonly Conversation[], ask: Ask): Promise<readonly number[]> {
  const times = await Promise.all(
    conversations.map(async ({ startsAtMs, system, turns }) => {
      await Bun.sleep(startsAtMs)
      const messages: Message[] = [{ role: 'system', content: system }]
      const own: number[] = []
      for (const { thinkMs, text } of turns) {
        await Bun.sleep(thinkMs)
        messages.push({ role: 'user', content: text })
        const answer = await ask(messages)
        own.push(answer.ttftMs)
        messages.push({ role: 'assistant', content: answer.text })
      }
      return own
    }),
  )
  return times.flat()
}
