import { useEffect, useRef, useState } from 'preact/hooks'
import { Alert, Empty } from '../parts/states.tsx'
import { type Refusal, refusalFrom } from '../state/api.ts'
import { type Answered, askChat, conversation, type Message } from '../state/conversation.ts'
import { token } from '../state/session.ts'
import { Trace } from './try-trace.tsx'

interface Question {
  readonly apiKey: string
  readonly model: string
  readonly mixture: object | null
  /** A fingerprint; empty: in the clear. */
  readonly seal: string
}

interface Turn {
  /** The text that has arrived so far. null if no request runs. */
  readonly running: string | null
  readonly failure: Refusal | null
  readonly answered: Answered | null
}

const idle: Turn = { running: null, failure: null, answered: null }
/** One question at a time; leaving the page or stopping ends it at the gateway, too. */
function useChat({ apiKey, model, mixture, seal }: Question) {
  const [turn, setTurn] = useState<Turn>(idle)
  const stopping = useRef<AbortController | null>(null)
  const stop = () => stopping.current?.abort()
  useEffect(() => stop, [])
  const ask = async (content: string) => {
    const messages: readonly Message[] = [...conversation.value, { role: 'user', content }]
    const stopper = new AbortController()
    const { signal } = stopper
    stopping.current = stopper
    conversation.value = messages
    let text = ''
    setTurn({ ...idle, running: text })
    const more = (piece: string) => {
      text += piece
      setTurn({ ...idle, running: text })
    }
    const end = await askChat({ key: apiKey, model, messages, mixture, seal, signal }, more).then(
      (answered) => ({ ...idle, answered }),
      (error: unknown) => (signal.aborted ? idle : { ...idle, failure: refusalFrom(error) }),
    )
    // Nothing is kept after the operator has signed out.
    if (text !== '' && token.value !== null) conversation.value = [...messages, { role: 'assistant', content: text }]
    setTurn(end)
  }
  const clear = () => {
    conversation.value = []
    setTurn(idle)
  }
  return { ...turn, ask, stop, clear }
}

export function Conversation(question: Question) {
  const { running, failure, answered, ask, stop, clear } = useChat(question)
  const able = question.apiKey !== '' && question.model !== ''
  return (
    <section class="conversation" aria-label="Conversation">
      <Messages running={running} failure={failure} />
      {answered !== null && <Trace answered={answered} />}
      <Compose able={able} busy={running !== null} ask={ask} stop={stop} clear={clear} />
    </section>
  )
}

function Messages({ running, failure }: Pick<Turn, 'running' | 'failure'>) {
  const end = useRef<HTMLDivElement>(null)
  useEffect(() => end.current?.scrollIntoView({ block: 'nearest' }))
  const messages = conversation.value
  return (
    <div class="messages" role="log" aria-live="polite" aria-busy={running !== null}>
      {messages.length === 0 && running === null && (
        <Empty title="No message yet">Enter a key, choose a model and write a message below.</Empty>
      )}
      {messages.map(({ role, content }, at) => (
        <p key={at} class={`message ${role}`}>
          <span class="visually-hidden">{role === 'user' ? 'You: ' : 'Answer: '}</span>
          {content}
        </p>
      ))}
      {running !== null && (
        <p class="message assistant running">{running === '' ? 'Waiting for the first token…' : running}</p>
      )}
      {failure !== null && (
        <Alert>
          <code>{failure.code}</code> {failure.message}
        </Alert>
      )}
      <div ref={end} />
    </div>
  )
}

interface ComposeProps {
  readonly able: boolean
  readonly busy: boolean
  readonly ask: (content: string) => void
  readonly stop: () => void
  readonly clear: () => void
}

function Compose({ able, busy, ask, stop, clear }: ComposeProps) {
  const [draft, setDraft] = useState('')
  const ready = able && !busy && draft.trim() !== ''
  const send = (event: Event) => {
    event.preventDefault()
    if (!ready) return
    ask(draft.trim())
    setDraft('')
  }
  return (
    <form class="compose" onSubmit={send}>
      <label for="draft" class="visually-hidden">
        Message
      </label>
      <textarea
        id="draft"
        rows={2}
        placeholder="Ask something"
        value={draft}
        onInput={(event) => setDraft(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) send(event)
        }}
      />
      {busy ? (
        <button type="button" onClick={stop}>
          Stop
        </button>
      ) : (
        <button type="submit" class="primary" disabled={!ready}>
          Send
        </button>
      )}
      <button type="button" class="quiet" disabled={busy || conversation.value.length === 0} onClick={clear}>
        Clear
      </button>
    </form>
  )
}
