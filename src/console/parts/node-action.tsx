import { useEffect, useRef, useState } from 'preact/hooks'
import { callAdmin, Refusal } from '../state/api.ts'
import { useLoad } from '../state/load.ts'
import { mayAct, type Role } from '../state/session.ts'

export type NodeCommand = 'drain' | 'resume' | 'revoke'

interface CommandText {
  readonly verb: string
  readonly role: Role
  readonly about: string
  /** The action cannot be undone, so the operator types the name. */
  readonly grave: boolean
}

export const commands: Readonly<Record<NodeCommand, CommandText>> = {
  drain: {
    verb: 'Drain',
    role: 'operator',
    about: 'The node gets no new work. Running requests may finish. Resume gives it work again.',
    grave: false,
  },
  resume: { verb: 'Resume', role: 'operator', about: 'The node gets new work again.', grave: false },
  revoke: {
    verb: 'Revoke',
    role: 'admin',
    about: 'The node’s keys stop working at once, its running requests fail, and it can never come back with this id.',
    grave: true,
  },
}

/** Of `GET /v1/admin/approval-policy`: what one action asks for. */
interface PolicyAction {
  readonly action: string
  readonly reason_required: boolean
  readonly typed_confirmation: string | null
}
interface Policy {
  readonly actions: readonly PolicyAction[]
}

export interface ActionTarget {
  readonly nodeId: string
  readonly name: string
  readonly command: NodeCommand
}

export const mayCommand = (command: NodeCommand): boolean => mayAct(commands[command].role)

interface Asked {
  readonly reason: boolean
  readonly typed: string | null
}

/**
 * What the policy requires. If the gateway has no policy, an action that cannot be undone still requires a reason and
 * the name.
 */
function askedFor({ command, name }: ActionTarget, policy: Policy | null): Asked {
  const { grave } = commands[command]
  const action = policy?.actions.find((each) => each.action === `node.${command}`)
  return { reason: action?.reason_required ?? grave, typed: action?.typed_confirmation ?? (grave ? name : null) }
}

/** What is typed, whether it is enough, and the sending of it. */
function useAction(target: ActionTarget, done: () => void) {
  const [policy] = useLoad<Policy>('/v1/admin/approval-policy')
  const [reason, setReason] = useState('')
  const [typed, setTyped] = useState('')
  const [failure, setFailure] = useState<string | null>(null)
  const [busy, setBusy] = useState(false)
  const asked = askedFor(target, policy.kind === 'ready' ? policy.data : null)
  const reasoned = !asked.reason || reason.trim() !== ''
  const confirmed = asked.typed === null || typed === asked.typed
  const ready = policy.kind !== 'loading' && !busy && reasoned && confirmed
  const send = async (event: Event) => {
    event.preventDefault()
    if (!ready) return
    setBusy(true)
    try {
      const body = reason.trim() === '' ? {} : { reason: reason.trim() }
      await callAdmin(`/v1/admin/nodes/${target.nodeId}/${target.command}`, { method: 'POST', body })
      done()
    } catch (error) {
      setFailure(error instanceof Refusal ? error.message : 'The gateway cannot be reached')
      setBusy(false)
    }
  }
  return { asked, reason, setReason, typed, setTyped, failure, busy, ready, send }
}

/** Asks before something is done to a node. Escape and the browser's own dialog keep the keyboard inside. */
export function NodeAction({ target, close, done }: { target: ActionTarget; close: () => void; done: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const { asked, failure, busy, ready, send, ...fields } = useAction(target, done)
  const { verb, about, grave } = commands[target.command]
  useEffect(() => dialog.current?.showModal(), [])
  return (
    <dialog ref={dialog} onClose={close} aria-labelledby="action-title" aria-describedby="action-about">
      <form onSubmit={send}>
        <h2 id="action-title">
          {verb} {target.name}
        </h2>
        <p id="action-about">{about}</p>
        <Fields asked={asked} {...fields} />
        {failure !== null && (
          <p class="alert" role="alert">
            {failure}
          </p>
        )}
        <div class="buttons">
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button type="submit" class={grave ? 'danger' : 'primary'} disabled={!ready}>
            {busy ? 'Working…' : verb}
          </button>
        </div>
      </form>
    </dialog>
  )
}

interface FieldsProps {
  readonly asked: Asked
  readonly reason: string
  readonly setReason: (text: string) => void
  readonly typed: string
  readonly setTyped: (text: string) => void
}

const Fields = ({ asked, reason, setReason, typed, setTyped }: FieldsProps) => (
  <>
    <label for="reason">
      Reason <small>{asked.reason ? 'for the audit, required' : 'for the audit, optional'}</small>
    </label>
    <textarea
      id="reason"
      rows={2}
      maxLength={500}
      required={asked.reason}
      value={reason}
      onInput={(event) => setReason(event.currentTarget.value)}
    />
    {asked.typed !== null && (
      <>
        <label for="typed">
          Type <code>{asked.typed}</code> to confirm
        </label>
        <input
          id="typed"
          autocomplete="off"
          spellcheck={false}
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
      </>
    )}
  </>
)
