import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Alert } from '../parts/states.tsx'
import { changed } from '../state/load.ts'
import { type Act, type ActField, act, acting, lastDone, type Shown } from './act.ts'
import { ConflictTable } from './conflict.tsx'
import { type Form, useForm } from './form.ts'
import { mayDo } from './policy.ts'

/** The form of whatever somebody is about to do. */
export const ActDialog = () => (acting.value === null ? null : <Opened key={acting.value.opening} {...acting.value} />)

/** Escape and the browser's own dialog keep the keyboard inside. */
function Opened({ act, opening }: { act: Act; opening: number }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const close = () => dialog.current?.close()
  const form = useForm(act, close)
  // In the same breath: a key that is pressed before it is open would reach the button behind it. It gives the keyboard to its first field at
  // once: a field that takes it later takes it from the one in which somebody already types.
  useLayoutEffect(() => dialog.current?.showModal(), [])
  // What the answer shows, it shows once: nobody leaves before it. A browser closes at a second Escape without asking.
  const leaving = (event: Event) => {
    if (form.busy) event.preventDefault()
  }
  // A browser says so a frame later, when somebody may have opened the next one.
  const closed = () => {
    if (form.busy) dialog.current?.showModal()
    else if (acting.value?.opening === opening) acting.value = null
  }
  return (
    <dialog ref={dialog} onCancel={leaving} onClose={closed} aria-labelledby="act-title" aria-describedby="act-about">
      {form.shown.length > 0 ? (
        <Answer act={act} form={form} close={close} />
      ) : (
        <Asking act={act} form={form} close={close} />
      )}
    </dialog>
  )
}

function Asking({ act, form, close }: { act: Act; form: Form; close: () => void }) {
  const { failure, busy, ready, verdict, asked, conflict } = form
  const bad = verdict !== null && verdict !== 'looking' && !verdict.good
  const buttons = useRef<HTMLDivElement>(null)
  // What differs stands above the buttons, and both may be below what the window shows of a long form.
  useEffect(() => {
    if (conflict !== null) buttons.current?.scrollIntoView({ block: 'nearest' })
  }, [conflict])
  const leave = () => {
    // What is shown behind the form is older than what the form has just shown.
    if (conflict !== null) changed.value++
    close()
  }
  return (
    <form onSubmit={form.send}>
      <h2 id="act-title">{act.title}</h2>
      <p id="act-about">{act.about}</p>
      {act.fields?.map((field, at) => (
        <Field key={field.name} field={field} form={form} first={at === 0} />
      ))}
      {act.check !== undefined && (
        <p class={bad ? 'looked bad-text' : 'looked'} role="status">
          {verdict === 'looking' ? 'Looking…' : (verdict?.says ?? '')}
        </p>
      )}
      <Brought form={form} first={act.fields === undefined} />
      {failure !== null && <Alert>{failure}</Alert>}
      <ConflictTable act={act} form={form} />
      <div class="buttons" ref={buttons}>
        <button type="button" disabled={busy} onClick={leave}>
          {conflict === null ? 'Cancel' : 'Leave it as it is now'}
        </button>
        <button type="submit" class={asked.typed === null ? 'primary' : 'danger'} disabled={!ready}>
          {busy
            ? 'Working…'
            : conflict !== null
              ? `${act.verb} mine all the same`
              : bad
                ? `${act.verb} anyway`
                : act.verb}
        </button>
      </div>
    </form>
  )
}

const inputTypes = { text: 'text', number: 'number', secret: 'password', moment: 'datetime-local' } as const

function Field({ field, form, first }: { field: ActField; form: Form; first: boolean }) {
  const { name, label, kind = 'text', hint, required, pattern, min = 1, of = [] } = field
  const id = `act-${name}`
  const shared = {
    id,
    autofocus: first,
    value: form.values[name] ?? '',
    onInput: (event: { readonly currentTarget: { readonly value: string } }) =>
      form.set(name, event.currentTarget.value),
  }
  return (
    <>
      <label for={id}>
        {label} {hint !== undefined && <small>{hint}</small>}
      </label>
      {kind === 'choice' ? (
        <select {...shared} required={required}>
          {of.map((choice) => (
            <option key={choice.value} value={choice.value}>
              {choice.label}
            </option>
          ))}
        </select>
      ) : (
        <input
          {...shared}
          type={inputTypes[kind]}
          min={kind === 'number' ? min : undefined}
          required={required}
          pattern={pattern}
          autocomplete="off"
          spellcheck={false}
        />
      )}
    </>
  )
}

/** What the approval policy asks for. */
function Brought({ form, first }: { form: Form; first: boolean }) {
  const { asked, reason, setReason, typed, setTyped, approver, setApprover } = form
  return (
    <>
      <label for="act-reason">
        Reason <small>{asked.reason ? 'for the audit, required' : 'for the audit, optional'}</small>
      </label>
      <textarea
        id="act-reason"
        autofocus={first}
        rows={2}
        maxLength={500}
        required={asked.reason}
        value={reason}
        onInput={(event) => setReason(event.currentTarget.value)}
      />
      {asked.approver && (
        <>
          <label for="act-approver">
            Token of a second admin <small>another person types it here</small>
          </label>
          <input
            id="act-approver"
            type="password"
            autocomplete="off"
            value={approver}
            onInput={(event) => setApprover(event.currentTarget.value)}
          />
        </>
      )}
      {asked.typed !== null && (
        <>
          <label for="act-typed">
            Type <code>{asked.typed}</code> to confirm
          </label>
          <input
            id="act-typed"
            autocomplete="off"
            spellcheck={false}
            value={typed}
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
        </>
      )}
    </>
  )
}

const once = { title: 'Shown only this once', about: 'Keep it where you keep passwords. Nobody can show it again.' }

function Answer({ act, form: { shown, lacking }, close }: { act: Act; form: Form; close: () => void }) {
  const { title, about } = act.again === true ? act : once
  return (
    <div class="once">
      <h2 id="act-title">{title}</h2>
      <p id="act-about">{about}</p>
      {lacking !== null && <Alert>{lacking}</Alert>}
      {shown.map((each) => (
        <Secret key={each.label} shown={each} />
      ))}
      <div class="buttons">
        <button type="button" class="primary" onClick={close}>
          Done
        </button>
      </div>
    </div>
  )
}

function Secret({ shown: { label, text } }: { shown: Shown }) {
  const [copied, setCopied] = useState(false)
  const box = useRef<HTMLElement>(null)
  const copy = async () => {
    // Without TLS a browser has no clipboard for pages: then the text is marked, and Ctrl-C takes it.
    if (box.current !== null) getSelection()?.selectAllChildren(box.current)
    await navigator.clipboard?.writeText(text)
    setCopied(true)
  }
  return (
    <div class="secret">
      <h3>{label}</h3>
      <code ref={box}>{text}</code>
      <button type="button" onClick={() => void copy().catch(() => setCopied(false))}>
        {copied ? 'Copied' : 'Copy'}
        <span class="visually-hidden"> {label}</span>
      </button>
    </div>
  )
}

/** What was done, and the way back. */
export function DoneNotice() {
  const { value } = lastDone
  if (value === null) return null
  const { says, undo } = value
  return (
    <div class="done" role="status">
      <p>{says}</p>
      {undo !== null && mayDo(...undo.actions) && (
        <button
          type="button"
          onClick={() => {
            lastDone.value = null
            act(undo)
          }}
        >
          Undo
        </button>
      )}
      <button type="button" class="quiet" onClick={() => (lastDone.value = null)}>
        Close<span class="visually-hidden"> this message</span>
      </button>
    </div>
  )
}
