import { effect, signal } from '@preact/signals'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Refusal } from '../api.ts'
import { type Answered, askChat, type Message, modelsFor } from '../chat.ts'
import { Empty } from '../parts/states.tsx'
import { token } from '../session.ts'
import { MixtureForm, type MixtureSetting, mixtureOf, noMixture } from './try-mixture.tsx'
import { Trace } from './try-trace.tsx'

/** In memory, while the page is open; never stored. */
const key = signal('')
const conversation = signal<readonly Message[]>([])
effect(() => {
  if (token.value !== null) return
  key.value = ''
  conversation.value = []
})

const keyPauseMs = 400

/** The models that a key may use; asked anew when the typing has paused. */
function useModels(given: string): { readonly models: readonly string[]; readonly why: string | null } {
  const [state, setState] = useState<{ models: readonly string[]; why: string | null }>({ models: [], why: null })
  useEffect(() => {
    if (given === '') return setState({ models: [], why: null })
    const ending = new AbortController()
    const look = () =>
      modelsFor(given, ending.signal).then(
        (models) => setState({ models, why: null }),
        (error: unknown) => {
          if (ending.signal.aborted) return
          setState({ models: [], why: error instanceof Refusal ? error.message : 'The gateway cannot be reached' })
        },
      )
    const timer = setTimeout(look, keyPauseMs)
    return () => {
      clearTimeout(timer)
      ending.abort()
    }
  }, [given])
  return state
}

export function TryIt() {
  const { models, why } = useModels(key.value.trim())
  const [chosen, setChosen] = useState('')
  const [mixture, setMixture] = useState<MixtureSetting>(noMixture)
  const model = models.includes(chosen) ? chosen : (models[0] ?? '')
  return (
    <>
      <h1>Try it</h1>
      <div class="try">
        <form class="try-settings" aria-label="Settings" onSubmit={(event) => event.preventDefault()}>
          <label for="key">Gateway key</label>
          <input
            id="key"
            type="password"
            autocomplete="off"
            spellcheck={false}
            value={key.value}
            aria-describedby="key-hint"
            onInput={(event) => {
              key.value = event.currentTarget.value
            }}
          />
          <p id="key-hint" class={why === null ? 'hint' : 'alert'} role={why === null ? undefined : 'alert'}>
            {why ?? 'A customer’s key: what you ask counts on its account. It is not kept.'}
          </p>
          <label for="model">Model</label>
          <select
            id="model"
            value={model}
            disabled={models.length === 0}
            onChange={(e) => setChosen(e.currentTarget.value)}
          >
            {models.length === 0 && <option value="">none for this key yet</option>}
            {models.map((id) => (
              <option key={id} value={id}>
                {id}
              </option>
            ))}
          </select>
          <MixtureForm models={models} setting={mixture} change={setMixture} />
        </form>
        <Conversation apiKey={key.value.trim()} model={model} mixture={mixtureOf(mixture, models)} />
      </div>
    </>
  )
}

interface ConversationProps {
  readonly apiKey: string
  readonly model: string
  readonly mixture: object | null
}

type Running = { readonly text: string; readonly stop: AbortController }

function Conversation({ apiKey, model, mixture }: ConversationProps) {
  const [draft, setDraft] = useState('')
  const [running, setRunning] = useState<Running | null>(null)
  const [failure, setFailure] = useState<Refusal | null>(null)
  const [answered, setAnswered] = useState<Answered | null>(null)
  const end = useRef<HTMLDivElement>(null)
  const left = useRef<AbortController | null>(null)
  useEffect(() => () => left.current?.abort(), [])
  const messages = conversation.value
  useEffect(() => end.current?.scrollIntoView({ block: 'nearest' }))
  const ready = apiKey !== '' && model !== '' && draft.trim() !== '' && running === null
  const send = async (event: Event) => {
    event.preventDefault()
    if (!ready) return
    const asked: readonly Message[] = [...messages, { role: 'user', content: draft.trim() }]
    conversation.value = asked
    const stop = new AbortController()
    left.current = stop
    setDraft('')
    setFailure(null)
    setAnswered(null)
    let text = ''
    setRunning({ text, stop })
    try {
      const question = { key: apiKey, model, messages: asked, mixture, signal: stop.signal }
      const done = await askChat(question, (more) => {
        text += more
        setRunning({ text, stop })
      })
      setAnswered(done)
    } catch (error) {
      if (!stop.signal.aborted)
        setFailure(
          error instanceof Refusal ? error : new Refusal(0, 'unreachable', 'The gateway cannot be reached', null),
        )
    } finally {
      if (text !== '') conversation.value = [...asked, { role: 'assistant', content: text }]
      setRunning(null)
    }
  }
  return (
    <section class="conversation" aria-label="Conversation">
      <div class="messages" role="log" aria-live="polite" aria-busy={running !== null}>
        {messages.length === 0 && running === null && (
          <Empty title="Nothing asked yet">Type a key, choose a model and write something below.</Empty>
        )}
        {messages.map(({ role, content }, at) => (
          <p key={at} class={`message ${role}`}>
            <span class="visually-hidden">{role === 'user' ? 'You: ' : 'Answer: '}</span>
            {content}
          </p>
        ))}
        {running !== null && (
          <p class="message assistant running">{running.text === '' ? 'Waiting for the first token…' : running.text}</p>
        )}
        {failure !== null && (
          <p class="alert" role="alert">
            <code>{failure.code}</code> {failure.message}
          </p>
        )}
        <div ref={end} />
      </div>
      {answered !== null && <Trace answered={answered} />}
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
            if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) void send(event)
          }}
        />
        {running === null ? (
          <button type="submit" class="primary" disabled={!ready}>
            Send
          </button>
        ) : (
          <button type="button" onClick={() => running.stop.abort()}>
            Stop
          </button>
        )}
        <button
          type="button"
          class="quiet"
          disabled={running !== null || messages.length === 0}
          onClick={() => {
            conversation.value = []
            setAnswered(null)
            setFailure(null)
          }}
        >
          Clear
        </button>
      </form>
    </section>
  )
}
