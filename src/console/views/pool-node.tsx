import { useEffect, useState } from 'preact/hooks'
import { hardwareWords } from '../../actions/frame/hardware-words.ts'
import type { Node } from '../../protocol/wire/admin/admin.ts'
import { ActButton, ActButtons } from '../actions/act-button.tsx'
import { removeNode } from '../actions/node-acts.ts'
import { editNode } from '../actions/node-edit.ts'
import { changeOwner, mayPass } from '../actions/node-owner.ts'
import { ago, amount, duration, nothing } from '../parts/format.ts'
import {
  ejectedModels,
  firstTokenOf,
  measuredWords,
  modelsOf,
  slotsOf,
  speedOf,
  stateTones,
  stateWords,
} from '../parts/node-facts.ts'
import { Id, Pill, useNow } from '../parts/small.tsx'
import { useCustomerNames } from '../state/account-names.ts'
import { namesToCome } from '../state/node-names.ts'
import { NodeModels } from './node-models.tsx'
import { NodePulls } from './node-pulls.tsx'

const modelsNamedMax = 3

function Models({ node }: { node: Node }) {
  const models = modelsOf(node)
  if (models.length === 0) return <span class="muted">none known</span>
  const names = [...new Map(models.map((model) => [model.model, model.ready])).entries()]
  const more = names.length - modelsNamedMax
  return (
    <span class="chips">
      {names.slice(0, modelsNamedMax).map(([name, ready]) => (
        <span key={name} class={ready ? 'chip' : 'chip asleep'} title={ready ? `${name}: ready` : `${name}: not ready`}>
          {name}
        </span>
      ))}
      {more > 0 && <span class="muted">+{more}</span>}
    </span>
  )
}

function Load({ node }: { node: Node }) {
  const slots = slotsOf(node)
  if (slots === null) return <>{node.in_flight}</>
  return (
    <span class="load">
      <meter
        min={0}
        max={Math.max(1, slots)}
        value={node.in_flight}
        aria-label={`${node.in_flight} of ${slots} slots`}
      />
      <span>
        {node.in_flight}/{slots}
      </span>
    </span>
  )
}

function FirstToken({ node, nowMs }: { node: Node; nowMs: number }) {
  const last = firstTokenOf(node)
  if (last === null) return <>{nothing}</>
  return (
    <span>
      {duration(last.ms)} <small class="muted">{measuredWords(last, nowMs)}</small>
    </span>
  )
}

function Trouble({ node, nowMs }: { node: Node; nowMs: number }) {
  const ejected = ejectedModels(node, nowMs)
  const held = node.held_until !== null && Date.parse(node.held_until) > nowMs
  const hasAlarms = (node.alarms ?? []).length > 0
  if (ejected.length === 0 && !held && !node.usage_claims.review && !hasAlarms && node.last_error === null)
    return <span class="muted">{nothing}</span>
  return (
    <span class="trouble">
      {ejected.length > 0 && <Pill tone="bad" text={`${ejected.length} ejected`} />}
      {held && <Pill tone="warn" text="held down" />}
      {node.usage_claims.review && <Pill tone="warn" text="review" />}
      {hasAlarms && <Pill tone="bad" text="alarm" />}
      {node.last_error !== null && (
        <span>
          <code>{node.last_error.code}</code> <span class="muted">{ago(node.last_error.at, nowMs)}</span>
        </span>
      )}
    </span>
  )
}

/** `opened`: the page's address asks for the node's details. */
export function NodeRow({ node, opened }: { node: Node; opened: boolean }) {
  const [open, setOpen] = useState(opened)
  useEffect(() => setOpen((before) => before || opened), [opened])
  const now = useNow()
  const details = `details-${node.node_id}`
  const speed = speedOf(node)
  const says = stateWords(node)
  return (
    <tbody class={node.state === 'revoked' ? 'gone' : ''} data-row={node.node_id}>
      <tr>
        <th scope="row">
          <button
            type="button"
            class="expand"
            aria-expanded={open}
            aria-controls={details}
            onClick={() => setOpen(!open)}
          >
            <span class="twist" aria-hidden="true" />
            {node.name}
          </button>
        </th>
        <td data-label="State">
          <span class="state-cell">
            <Pill tone={stateTones[node.state]} text={node.state} />
            {says !== null && <span class="muted">{says}</span>}
            {node.state_since !== null && (
              <span class="muted since">{duration(Math.max(0, now - Date.parse(node.state_since)))}</span>
            )}
          </span>
        </td>
        <td data-label="Models">
          <Models node={node} />
        </td>
        <td data-label="In flight">
          <Load node={node} />
        </td>
        <td data-label="First token" class="number">
          <FirstToken node={node} nowMs={now} />
        </td>
        <td data-label="Tokens/s" class="number">
          {speed === null ? nothing : amount(speed)}
        </td>
        <td data-label="Trouble">
          <Trouble node={node} nowMs={now} />
        </td>
        <td class="actions">
          <ActButton act={editNode(node)} on={node.name} label="Edit" />
          <ActButtons kind="node" row={node} on={node.name} more={[removeNode(node)]} />
        </td>
      </tr>
      {open && (
        <tr class="details">
          <td colSpan={8} id={details}>
            <Facts node={node} />
            <NodeModels node={node} nowMs={now} />
            <NodePulls node={node} />
          </td>
        </tr>
      )}
    </tbody>
  )
}

function Facts({ node }: { node: Node }) {
  const { calls, at_bound: atBound } = node.usage_claims
  const owners = useCustomerNames()
  const facts: readonly (readonly [string, string | null])[] = [
    ['Kind', node.kind === 'agent' ? 'agent' : 'model server'],
    ['Reached', node.transport ?? 'not reached'],
    ['Address', node.url],
    ['Visibility', `${node.visibility}, ${node.privacy_class} data`],
    ['Class', node.node_class],
    ['Added by', node.origin],
    ['Identity', node.identity_fingerprint],
    ...hardwareWords(node.hardware),
    ['Woken by', (node.macs ?? []).join(', ') || null],
    ['Requests may wake it', node.wake_hours ?? null],
    ['Takes to wake', node.wake_ms == null ? null : duration(node.wake_ms)],
    ...(node.alarms ?? []).map(({ code, subject, at }) => ['Alarm of the node', `${code}: ${subject}, ${at}`] as const),
    ['Claims at the bound', calls === 0 ? null : `${atBound} of the last ${calls} paid calls`],
    ['Runtimes', node.runtimes.map(({ runtime_kind, state }) => `${runtime_kind} (${state})`).join(', ') || null],
  ]
  return (
    <dl class="facts">
      <div>
        <dt>Id</dt>
        <dd>
          <Id id={node.node_id} />{' '}
          <a href={`#statecharts/node/${node.node_id}`}>
            Statechart<span class="visually-hidden"> of {node.name}</span>
          </a>{' '}
          <a href={`#audit/approvals?target_id=${node.node_id}`}>
            Who changed it<span class="visually-hidden">: {node.name}</span>
          </a>{' '}
          <a href={`#requests?node_id=${node.node_id}`}>
            Requests<span class="visually-hidden"> of {node.name}</span>
          </a>
        </dd>
      </div>
      {node.customer_id !== null && (
        <div>
          <dt>Owner</dt>
          <dd>
            {owners.get(node.customer_id) ?? node.customer_id}{' '}
            {mayPass(node) && (
              <ActButton act={changeOwner(node, owners)} on={`of ${node.name}`} able={owners !== namesToCome} />
            )}
          </dd>
        </div>
      )}
      {facts
        .filter(([, value]) => value !== null)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  )
}
