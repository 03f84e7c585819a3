import { useState } from 'preact/hooks'
import { readAdmin, whyOf } from '../state/api.ts'

interface Said {
  readonly good: boolean
  readonly text: string
}

interface CheckProps<T> {
  readonly path: string
  readonly what: string
  readonly say: (answer: T) => Said
}

/** A check that reads much, and so runs when somebody asks for it. */
export function Check<T>({ path, what, say }: CheckProps<T>) {
  const [state, setState] = useState<Said | 'busy' | null>(null)
  const run = async () => {
    setState('busy')
    try {
      setState(say(await readAdmin<T>(path)))
    } catch (error) {
      setState({ good: false, text: whyOf(error) })
    }
  }
  return (
    <div class="check">
      <button type="button" disabled={state === 'busy'} onClick={() => void run()}>
        {state === 'busy' ? 'Checking…' : what}
      </button>
      {state !== null && state !== 'busy' && (
        <p class={state.good ? 'verdict good' : 'verdict bad'} role={state.good ? 'status' : 'alert'}>
          {state.text}
        </p>
      )}
    </div>
  )
}
