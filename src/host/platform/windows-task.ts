import { checkWord, markPlace, ServiceFault, type ServiceSpec } from './service.ts'

const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
const xml = (text: string) => text.replaceAll(/[&<>"]/g, (sign) => entities[sign] ?? sign)

/** A word for `cmd`. What `cmd` reads as more than a letter, even between quotes, no word may have. */
function word(text: string): string {
  if (/["%!^&|<>]/.test(checkWord(text))) {
    throw new ServiceFault(`A task of Windows cannot hold ${JSON.stringify(text)}: leave out " % ! ^ & | < and >.`)
  }
  return `"${text}"`
}

/**
 * A task of the Task Scheduler that starts when its user logs on, and again a minute after a failure. It has no place for what a program
 * writes, so `cmd` appends that to a file; and none for variables, so `cmd` sets them.
 */
export function taskText(spec: ServiceSpec, log: string): string {
  const sets = Object.entries(spec.environment).map(([name, value]) => `set ${word(`${name}=${value}`)}`)
  const line = [...sets, `${spec.command.map(word).join(' ')} >> ${word(log)} 2>&1`].join('&&')
  return `${[
    '<?xml version="1.0" encoding="UTF-16"?>',
    `<!-- Written by penstock ${spec.kind === 'gateway' ? 'service' : 'node'} install, which also replaces and removes it. ${markPlace} -->`,
    '<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">',
    '  <RegistrationInfo>',
    `    <Description>Penstock${spec.kind === 'gateway' ? ', a gateway for model servers' : ' node agent'}</Description>`,
    '  </RegistrationInfo>',
    '  <Triggers><LogonTrigger><Enabled>true</Enabled></LogonTrigger></Triggers>',
    '  <Principals><Principal id="Author"><LogonType>InteractiveToken</LogonType></Principal></Principals>',
    '  <Settings>',
    '    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>',
    '    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>',
    '    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>',
    '    <Hidden>true</Hidden>',
    '    <RestartOnFailure><Interval>PT1M</Interval><Count>255</Count></RestartOnFailure>',
    '    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>',
    '  </Settings>',
    '  <Actions Context="Author">',
    '    <Exec>',
    '      <Command>cmd.exe</Command>',
    `      <Arguments>/d /s /c "${xml(line)}"</Arguments>`,
    `      <WorkingDirectory>${xml(checkWord(spec.folder))}</WorkingDirectory>`,
    '    </Exec>',
    '  </Actions>',
    '</Task>',
  ].join('\r\n')}\r\n`
}
