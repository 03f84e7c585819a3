import { useEffect, useRef, useState } from 'preact/hooks'
import { Alert } from '../parts/states.tsx'
import { type Refusal, refusalFrom } from '../state/api.ts'
import { type Answered, type Ask, askChat } from '../state/conversation.ts'
import { Trace } from './try-trace.tsx'

/** Models that are asked beside the first: more columns cannot be read. */
export const besideMax = 3

interface Other {
  readonly model: string
  readonly text: string
  readonly failure: Refusal | null
  readonly answered: Answered | null
}

/** Asks other models the same at the same time. Leaving the page or stopping ends all of them at the gateway, too. */
export function useOthers(models: readonly string[]) {
  const [others, setOthers] = useState<readonly Other[]>([])
  const stopping = useRef<AbortController | null>(null)
  const stop = () => stopping.current?.abort()
  useEffect(() => stop, [])
  const ask = async (question: Omit<Ask, 'model' | 'signal' | 'mixture'>) => {
    // What still answers the question before would write into this one's answers.
    stop()
    const stopper = new AbortController()
    const { signal } = stopper
    stopping.current = stopper
    setOthers(models.map((model) => ({ model, text: '', failure: null, answered: null })))
    const change = (model: string, to: (other: Other) => Other) => {
      if (!signal.aborted) setOthers((all) => all.map((other) => (other.model === model ? to(other) : other)))
    }
    await Promise.all(
      models.map((model) =>
        askChat({ ...question, model, mixture: null, signal }, (piece) =>
          change(model, (other) => ({ ...other, text: other.text + piece })),
        ).then(
          (answered) => change(model, (other) => ({ ...other, answered })),
          (error: unknown) => change(model, (other) => ({ ...other, failure: refusalFrom(error) })),
        ),
      ),
    )
  }
  const clear = () => {
    stop()
    setOthers([])
  }
  return { others, ask, stop, clear }
}

/** What the other models answered to the last question, each with its trace. */
export const Others = ({ others }: { others: readonly Other[] }) => (
  <div class="beside">
    {others.map(({ model, text, failure, answered }) => (
      <section key={model} aria-label={`Answer of ${model}`}>
        <h2>{model}</h2>
        {failure === null ? (
          <p class="message assistant">{text === '' ? 'Waiting for the first token…' : text}</p>
        ) : (
          <Alert>
            <code>{failure.code}</code> {failure.message}
          </Alert>
        )}
        {answered !== null && <Trace answered={answered} label={`Trace of ${model}`} />}
      </section>
    ))}
  </div>
)
