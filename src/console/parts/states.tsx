import type { ComponentChildren } from 'preact'
import type { Loaded } from '../state/load.ts'
import { count } from './format.ts'

/** Nothing is there, and why that may be all right. */
export const Empty = ({ title, children }: { title: string; children?: ComponentChildren }) => (
  <div class="state-note">
    <p class="state-title">{title}</p>
    {children !== undefined && <p>{children}</p>}
  </div>
)

/** Says that a list may go on, so that its first part is not mistaken for the whole. `limit`: the rows requested. */
export const Cut = ({ rows, limit, what }: { rows: number; limit: number; what: string }) =>
  rows < limit ? null : (
    <p class="muted" role="status">
      At most {count(limit)} are shown here: {what}.
    </p>
  )

/** What went wrong with what somebody just did. */
export const Alert = ({ children }: { children: ComponentChildren }) => (
  <p class="alert" role="alert">
    {children}
  </p>
)

export const Loading = ({ what, rows = 3 }: { what: string; rows?: number }) => (
  <div class="skeleton" role="status">
    <span class="visually-hidden">Loading {what}…</span>
    {Array.from({ length: rows }, (_, at) => (
      <span class="bone" key={at} aria-hidden="true" />
    ))}
  </div>
)

interface Failure {
  readonly what: string
  readonly why: string
  readonly requestId: string | null
  readonly again: () => void
}

export const Failed = ({ what, why, requestId, again }: Failure) => (
  <div class="state-note failed" role="alert">
    <p class="state-title">
      {what.charAt(0).toUpperCase()}
      {what.slice(1)} could not be read
    </p>
    <p>
      {why}
      {requestId !== null && (
        <>
          {' '}
          <code>{requestId}</code>
        </>
      )}
    </p>
    <button type="button" onClick={again}>
      Try again
    </button>
  </div>
)

interface Shown<T> {
  readonly what: string
  readonly loaded: Loaded<T>
  readonly again: () => void
  readonly children: (data: T) => ComponentChildren
}

/** A part of a page that is read by itself; where the gateway does not serve it, nothing. */
export function Part<T>({ what, loaded, again, children }: Shown<T>) {
  switch (loaded.kind) {
    case 'loading':
      return <Loading what={what} />
    case 'ready':
      return <>{children(loaded.data)}</>
    case 'absent':
      return null
    case 'forbidden':
      return <Empty title="Not for this role">An operator or admin token shows {what}.</Empty>
    case 'failed':
      return <Failed what={what} why={loaded.why} requestId={loaded.requestId} again={again} />
  }
}
