import java.io.*;
import java.nio.charset.StandardCharsets;
import org.scalatest.Reporter;
import org.scalatest.Suite;
import org.scalatest.events.*;

/**
 * Told CLASS..: prints "CLASS tab NAME" of each test, without running any. As a reporter of ScalaTest it adds "OUTCOME
 * tab CLASS tab NAME tab WHY" to the file that the property told.file names, as soon as a test has ended.
 */
public class Told implements Reporter {
    private final PrintWriter file;

    public Told() throws IOException {
        file = new PrintWriter(new FileWriter(System.getProperty("told.file"), StandardCharsets.UTF_8, true), true);
    }

    @Override public synchronized void apply(Event event) {
        if (event instanceof TestSucceeded test) tell("passed", test.suiteClassName().get(), test.testName(), "");
        if (event instanceof TestFailed test) tell("failed", test.suiteClassName().get(), test.testName(), test.message());
        if (event instanceof TestCanceled test) tell("canceled", test.suiteClassName().get(), test.testName(), test.message());
        if (event instanceof TestIgnored test) tell("ignored", test.suiteClassName().get(), test.testName(), "");
        if (event instanceof TestPending test) tell("ignored", test.suiteClassName().get(), test.testName(), "pending");
        if (event instanceof SuiteAborted suite) tell("failed", suite.suiteClassName().get(), "(before or after its tests)", suite.message());
    }

    private void tell(String outcome, String suite, String name, String why) {
        file.println(outcome + "\t" + suite + "\t" + oneLine(name) + "\t" + oneLine(why));
    }

    private static String oneLine(String text) {
        return text.replaceAll("[\t\r\n]+", " ");
    }

    public static void main(String[] classes) throws Exception {
        for (String name : classes) {
            Suite suite = (Suite) Class.forName(name).getDeclaredConstructor().newInstance();
            for (var tests = suite.testNames().iterator(); tests.hasNext();) {
                String test = tests.next();
                if (!test.equals(oneLine(test))) throw new AssertionError("a name of several lines: " + test);
                System.out.println(name + "\t" + test);
            }
        }
        // What a suite starts when it is made does not keep the process.
        System.exit(0);
    }
}
