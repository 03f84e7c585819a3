import { useState } from 'preact/hooks'
import { callAdmin, whyOf } from '../state/api.ts'

/** Saves what a route answers. A plain link could not carry the token. */
export function Download({ path, name, what }: { path: string; name: string; what: string }) {
  const [state, setState] = useState<'idle' | 'busy' | string>('idle')
  const save = async () => {
    setState('busy')
    try {
      const url = URL.createObjectURL(await (await callAdmin(path)).blob())
      const link = Object.assign(document.createElement('a'), { href: url, download: name })
      link.click()
      URL.revokeObjectURL(url)
      setState('idle')
    } catch (error) {
      setState(whyOf(error))
    }
  }
  return (
    <>
      <button type="button" class="quiet" disabled={state === 'busy'} onClick={() => void save()}>
        {state === 'busy' ? 'Saving…' : what}
      </button>
      {state !== 'idle' && state !== 'busy' && (
        <span class="bad-text" role="alert">
          {state}
        </span>
      )}
    </>
  )
}
