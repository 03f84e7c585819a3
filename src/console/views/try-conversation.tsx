import { useEffect, useRef, useState } from 'preact/hooks'
import { Alert, Empty } from '../parts/states.tsx'
import { type Refusal, refusalFrom } from '../state/api.ts'
import { type Answered, askChat, conversation, type Message, type Picture } from '../state/conversation.ts'
import { token } from '../state/session.ts'
import { Others, useOthers } from './try-beside.tsx'
import { Trace } from './try-trace.tsx'

interface Question {
  readonly apiKey: string
  readonly model: string
  readonly mixture: object | null
  readonly fields: object
  /** Models that get the same question at the same time. */
  readonly beside: readonly string[]
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
function useChat({ apiKey, model, mixture, fields, seal }: Question) {
  const [turn, setTurn] = useState<Turn>(idle)
  const stopping = useRef<AbortController | null>(null)
  const stop = () => stopping.current?.abort()
  useEffect(() => stop, [])
  const ask = async (messages: readonly Message[]) => {
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
    const end = await askChat({ key: apiKey, model, messages, mixture, fields, seal, signal }, more).then(
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
  const beside = useOthers(question.beside)
  const { apiKey: key, fields, seal } = question
  const askAll = (content: string, picture: Picture | null) => {
    const own: Message = { role: 'user', content, ...(picture === null ? {} : { picture }) }
    const messages = [...conversation.value, own]
    void beside.ask({ key, messages, fields, seal })
    void ask(messages)
  }
  const able = question.apiKey !== '' && question.model !== ''
  return (
    <section class="conversation" aria-label="Conversation">
      <Messages running={running} failure={failure} />
      {answered !== null && <Trace answered={answered} />}
      {beside.others.length > 0 && <Others others={beside.others} />}
      <Compose
        able={able}
        busy={running !== null}
        ask={askAll}
        stop={() => {
          stop()
          beside.stop()
        }}
        clear={() => {
          clear()
          beside.clear()
        }}
      />
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
      {messages.map(({ role, content, picture }, at) => (
        <p key={at} class={`message ${role}`}>
          <span class="visually-hidden">{role === 'user' ? 'You: ' : 'Answer: '}</span>
          {content}
          {picture !== undefined && <span class="muted"> With the picture {picture.name}.</span>}
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

/** In base64 it stays below what a request may have by default. */
const pictureBytesMax = 4 * 2 ** 20

const pictureOf = (file: File): Promise<Picture> =>
  new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve({ name: file.name, dataUrl: String(reader.result) })
    reader.onerror = () => reject(reader.error ?? new Error('The file cannot be read'))
    reader.readAsDataURL(file)
  })

interface ComposeProps {
  readonly able: boolean
  readonly busy: boolean
  readonly ask: (content: string, picture: Picture | null) => void
  readonly stop: () => void
  readonly clear: () => void
}

function Compose({ able, busy, ask, stop, clear }: ComposeProps) {
  const [draft, setDraft] = useState('')
  const [picture, setPicture] = useState<Picture | null>(null)
  const [tooLarge, setTooLarge] = useState(false)
  const attach = async (input: HTMLInputElement) => {
    const file = input.files?.[0]
    setTooLarge(file !== undefined && file.size > pictureBytesMax)
    setPicture(file === undefined || file.size > pictureBytesMax ? null : await pictureOf(file))
    input.value = ''
  }
  const ready = able && !busy && draft.trim() !== ''
  const send = (event: Event) => {
    event.preventDefault()
    if (!ready) return
    ask(draft.trim(), picture)
    setDraft('')
    setPicture(null)
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
      <label class="quiet attach">
        {picture === null ? 'Add a picture' : picture.name}
        <input
          type="file"
          class="visually-hidden"
          accept="image/png,image/jpeg,image/webp,image/gif"
          onChange={(event) => void attach(event.currentTarget)}
        />
      </label>
      {tooLarge && <Alert>A picture may have at most {pictureBytesMax / 2 ** 20} MiB.</Alert>}
      <button type="button" class="quiet" disabled={busy || conversation.value.length === 0} onClick={clear}>
        Clear
      </button>
    </form>
  )
}
